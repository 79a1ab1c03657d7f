"""ptxas takes every instruction of the form tables, so the tables test PTX and not a dialect of ours."""

from __future__ import annotations

import pytest
import test_forms_convert
import test_forms_float
import test_forms_integer
from support.forms import Form, batch

from convc.support.ptxas import assemble

FLOAT = [
    *[
        test_forms_float.arithmetic_form(name, count, kind, mods)
        for name, count, _, kind, mods, _ in test_forms_float.ARITHMETIC
    ],
    *[form for form, _ in (*test_forms_float.MODIFIED, *test_forms_float.EXTREMES, *test_forms_float.PAIRS)],
    *[form for form, _ in test_forms_float.THREE],
    *[
        Form(f"{name} {{d}}, {{a}};", f"b{kind.strip('bf')}", f"b{kind.strip('bf')}")
        for name, kind, _ in test_forms_float.APPROXIMATE
    ],
]
INTEGER = [form for form, _ in (*test_forms_integer.CASES, *test_forms_integer.FIELDS, *test_forms_integer.CHAINS)]
CONVERT = test_forms_convert.all_forms()


@pytest.mark.parametrize("forms", [INTEGER, FLOAT, CONVERT], ids=["integer", "float", "convert"])
def test_ptxas_takes_every_form(forms):
    assert len({form.text for form in forms}) > 80
    assemble(batch(forms))
