import pytest

pytest.importorskip("dash")
pytest.importorskip("typer")


@pytest.fixture(scope="session")
def app():
    from udtw.explorer import create_app

    return create_app()
