"""What every verb on Spark takes from its command line for Spark itself."""

import pytest

from holdfast.cli.spark_options import spark_settings
from holdfast.model.errors import InputError


def test_settings_and_packages_reach_spark_as_spark_submit_would_hand_them_over() -> None:
    found = spark_settings(["spark.a=1=2", "spark.jars.packages=g:one:1"], ["g:two:2", "g:three:3"])
    assert found == {"spark.a": "1=2", "spark.jars.packages": "g:one:1,g:two:2,g:three:3"}
    assert spark_settings(None, None) == {}


def test_what_is_neither_a_setting_nor_a_package_is_named() -> None:
    with pytest.raises(InputError, match="--conf: expected KEY=VALUE, found fast"):
        spark_settings(["fast"], None)
    with pytest.raises(InputError, match="--packages: expected GROUP:NAME:VERSION, found delta"):
        spark_settings(None, ["g:one:1,delta"])
