from __future__ import annotations

import pickle

import pytest
from permafrost.core.errors import PermafrostError, first_line, look_up, near_names


def test_the_message_names_the_place_then_the_problem_then_the_remedy():
    error = PermafrostError("the size is 0", where="entries.yaml: rcf", remedy="give a size")
    assert str(error) == "entries.yaml: rcf: the size is 0. Remedy: give a size"


def test_place_and_remedy_may_be_left_out():
    assert str(PermafrostError("the size is 0")) == "the size is 0"


def test_a_question_before_the_remedy_keeps_its_mark_alone():
    error = PermafrostError("no model 'rfc', did you mean 'rcf'?", remedy="correct the name")
    assert str(error) == "no model 'rfc', did you mean 'rcf'? Remedy: correct the name"


def test_an_error_crosses_process_borders_with_all_its_parts():
    error = pickle.loads(pickle.dumps(PermafrostError("a", where="b", remedy="c")))
    assert (error.problem, error.where, error.remedy) == ("a", "b", "c")
    assert str(error) == "b: a. Remedy: c"


def test_a_misspelt_name_is_answered_with_the_near_ones():
    assert near_names("resnet5", ["resnet50", "rcf"]) == "did you mean 'resnet50'?"


def test_a_name_like_no_other_is_answered_with_all_of_them():
    assert near_names("zzz", ["rcf", "imagestats"]) == "known: imagestats, rcf"
    assert near_names("zzz", []) == "known: none"


def test_names_of_which_it_is_a_part_come_before_those_that_are_spelt_alike():
    known = ["dior", "vit-base-dinov2", "vit-giant-dinov2", "vit-base-dinov3", "rcf"]
    wanted = "did you mean 'vit-base-dinov2' or 'vit-giant-dinov2'?"
    assert near_names("dinov2", known) == near_names("DINO v2", known) == wanted
    assert near_names("Di-oR", known) == "did you mean 'dior'?"
    assert near_names("sho", ["few_shot", "show"]) == "did you mean 'show'?"
    many = near_names("vit", [f"vit-base-{i}" for i in range(9)])
    assert many.startswith("did you mean 'vit-base-0' or ") and many.endswith("(5 more hold 'vit')")
    # two letters are part of too much
    assert near_names("rc", ["marching", "starchier"]) == "known: marching, starchier"


def test_where_a_command_lists_them_many_names_are_not_listed():
    names = [f"name{i:03d}" for i in range(50)]
    text = near_names("zzz", names, listing="`permafrost list backbones`")
    assert text == "nor one like it; `permafrost list backbones` names all 50"
    assert near_names("zzz", names[:2], listing="x") == "known: name000, name001"


def test_a_long_list_of_names_is_cut_and_counted():
    assert near_names("zzz", [f"name{i:03d}" for i in range(50)]).endswith("name039 and 10 more")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n  one\ntwo"), "one"),
        (MemoryError(), "MemoryError"),
        (MemoryError("\n"), "MemoryError"),
        (KeyError(""), "''"),
    ],
)
def test_foreign_errors_are_told_in_one_line_even_when_they_say_nothing(error, line):
    assert first_line(error) == line


def test_the_type_of_a_foreign_error_can_stand_before_what_it_says():
    assert first_line(ValueError("one\ntwo"), named=True) == "ValueError: one"
    assert first_line(EOFError(), named=True) == "EOFError"


def test_a_name_is_looked_up_or_refused_with_those_near_to_it():
    assert look_up({"knn": 1}, "knn", "no probe is called") == 1
    assert look_up(["knn", "linear"], "linear", "no probe is called") == "linear"
    with pytest.raises(PermafrostError) as caught:
        look_up({"linear": 1}, "liner", "no probe is called", where="config.yaml")
    assert str(caught.value) == (
        "config.yaml: no probe is called 'liner', did you mean 'linear'? Remedy: correct the name"
    )
