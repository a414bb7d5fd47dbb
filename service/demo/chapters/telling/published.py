"""A number for everybody: published, read without an account, and taken back."""

from __future__ import annotations

from service.demo.theatre.scene import Scene, require
from service.demo.theatre.stage import Api


def publish(scene: Scene) -> str:
    """Publish the orders of a week, read them as a stranger, and revoke them."""
    stage = scene.stage
    stage.step("The owner publishes one number")
    wish = {
        "blueprint_id": "event-count",
        "params": {"event": "order_paid", "days": 7},
        "title": "Orders of the week",
        "cache_seconds": 60,
    }
    made = scene.owner.call("POST", f"{scene.path}/public-queries", wish, expect=201)
    stage.step("A stranger reads it, without a key")
    stranger = Api(scene.world.base_url, None, stage, "stranger")
    path = made["public_url"].removeprefix(scene.world.base_url)
    shown = stranger.call("GET", path)
    [row] = shown["rows"]
    require("project_id" not in str(shown), "The public answer names the project.")
    stage.tell(f"A stranger without a key reads {shown['title']!r}: {row['row_count']}, and nothing else of the shop.")
    stranger.call("GET", f"{scene.path}/cases", expect=401)
    stage.step("The owner takes it back")
    scene.owner.call("DELETE", f"{scene.path}/public-queries/{made['publication_id']}")
    gone = stranger.call("GET", path, expect=404)["error"]["code"]
    stranger.close()
    stage.tell(f"The owner takes it back, and its address answers {gone}, kept rows included.")
    return "One number was public, and one request took it back."
