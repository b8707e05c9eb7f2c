"""Network files to begin with: the papers' settings and a small one to play with. Each explains itself."""

from importlib.resources import files

from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean

PRESETS: dict[str, str] = {
    "quickstart": "five brokers, a stock ticker and a few lossy links",
    "wan-12": "12 brokers across a continent, 60 clients, rates that jump (paper 000)",
    "wan-46": "46 brokers, 230 clients, a few publications that interest many (paper 000)",
    "epidemic-100": "a tree of 100 brokers with a tenth of the messages lost on every link (paper 001)",
    "replication-star": "a broker between publishers and subscribers fails (paper 003)",
    "demo-12": "12 brokers with lossy links, one of which is killed and replaced (`holdfast demo`)",
    "planning-10": "10 brokers that are often down for an hour or two, and events that live an hour (paper 004)",
    "bus": "clients over NATS, whose server is killed and restarted (`[carrier]`)",
}


def preset_text(name: str) -> str:
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        listed = "\n".join(f"  {each:17} {about}" for each, about in PRESETS.items())
        raise InputError(f'there is no preset "{name}"{"; " + hint if hint else ""}\n{listed}')
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
