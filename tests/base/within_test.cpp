#include "base/within.h"

#include <doctest/doctest.h>

namespace crumb {
namespace {

TEST_CASE("within: the context comes before the message, and what was stopped stays as it is") {
  for (const ErrorKind kind : {ErrorKind::kFailed, ErrorKind::kUsage}) {
    const Error made = within("layer 'a'", Error("too large", kind));
    CHECK(std::string(made.what()) == "layer 'a': too large");
    CHECK(made.kind() == kind);
    const Error of_file = within_file("'m.onnx'", Error("too large", kind));
    CHECK(std::string(of_file.what()) == "'m.onnx': too large");
    CHECK(of_file.kind() == ErrorKind::kFailed);
  }
  const Error stopped("interrupted", ErrorKind::kInterrupted);
  for (const Error& made : {within("a", stopped), within_file("a", stopped)}) {
    CHECK(std::string(made.what()) == "interrupted");
    CHECK(made.kind() == ErrorKind::kInterrupted);
  }
}

}  // namespace
}  // namespace crumb
