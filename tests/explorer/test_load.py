"""A few users at once and uploads, beside clients that never finish a request: nobody waits for another."""

from tests.explorer.load import slow_clients, upload, use


def test_users_and_uploads_are_answered_beside_slow_clients(app, url):
    held = slow_clients(url, 20)
    try:
        moves, files = use(url, app, users=4, seconds=1.5), upload(url, app, 5, steps=200)
        wrong = upload(url, app, 1, steps=2)
    finally:
        for one in held:
            one.close()
    assert moves.errors == files.errors == []
    assert len(moves.seconds) >= 4
    assert len(files.seconds) == 5
    assert len(wrong.errors) == 1, "what the page would show is an error here"
