// doctest's CAPTURE, also of names that a structured binding declares: its lambda cannot see those where the compiler is
// clang before 16.
#pragma once

#include <doctest/doctest.h>

#define CRUMB_CAPTURE_AS(name, expression) \
  const auto& name = expression;           \
  INFO(#expression " := ", name)
#define CAPTURE_COPY(expression) CRUMB_CAPTURE_AS(DOCTEST_ANONYMOUS(captured_), expression)
