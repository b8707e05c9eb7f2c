"""The network as a picture: what each link carried and lost, with words that stay clear of each other."""

import re

from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.pipeline.audit.links import Direction
from holdfast.pipeline.report.network_picture import network_picture


def both_ways(a: str, b: str, sent: int, lost: int) -> list[Direction]:
    return [Direction(a, b, sent, 90 * sent, lost), Direction(b, a, sent, 90 * sent, lost)]


def test_links_say_their_load_and_loss_and_busier_ones_are_wider() -> None:
    made = network_picture([*both_ways("a", "b", 400, 8), *both_ways("b", "c", 100, 1)], 10, ["b"])
    assert ">80/s" in made and ">2.0 %<" in made
    assert ">20/s" in made and ">1.0 %<" in made
    widths = [float(each) for each in re.findall(r"stroke-width: ([\d.]+)", made)]
    assert widths[0] > widths[1]
    assert "a to b: 400 messages (40/s), 36.0 kB, 2.00 % lost" in made
    assert made.count('class="ring"') == 1
    assert network_picture([], 10) == ""


def test_no_words_of_the_demos_network_cover_others() -> None:
    """The boxes of the words as a browser would draw them, about: 6.8 pixels a character, 15 a line."""
    links = parse_text(preset_text("demo-12")).links
    made = network_picture([each for link in links for each in both_ways(link.a, link.b, 4_000, 120)], 60)
    words = re.findall(r'<text class="(name|load)" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', made)
    assert len(words) == 12 + 11
    boxes = []
    for _, x, y, inside in words:
        half = 6.8 * len(re.sub("<[^>]*>", "", inside)) / 2
        boxes.append((float(x) - half, float(y) - 11, float(x) + half, float(y) + 4))
    for at, one in enumerate(boxes):
        assert one[0] >= 0 and one[2] <= 640
        for other in boxes[:at]:
            apart = one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
            assert apart, (words[at], other)


def test_a_large_network_is_drawn_without_words() -> None:
    made = network_picture([each for n in range(120) for each in both_ways("hub", f"b{n}", 5, 0)], 1)
    assert made.count("<line") == 120
    assert "<text" not in made
