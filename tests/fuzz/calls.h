// Sequences of calls of crumb.h that bytes decide: any call in any order, with any sizes, on networks so small that a call takes
// microseconds. What is shared by the fuzz target and by the test that draws sequences (tests/models/calls_test.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace crumb::testing {

/// Plays on the models of calls_models.h, which are networks by themselves.
class Calls {
 public:
  Calls();
  ~Calls();

  /// Plays a script and closes what it opened. Gives the number of calls. Throws std::logic_error where a call breaks a promise
  /// of crumb.h: it fails without a word, writes where it fails, or gives what is none of its sizes.
  std::size_t play(std::span<const std::byte> script) const;

  /// The packed file of a model.
  const std::string& path(std::size_t kind) const;

 private:
  struct Files;
  std::unique_ptr<const Files> files_;
};

}  // namespace crumb::testing
