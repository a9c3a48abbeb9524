// LibTorch and doctest in one file: both define CHECK and its like; here doctest's win. Include this first.
#pragma once

#include <torch/types.h>

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE
#include <doctest/doctest.h>
