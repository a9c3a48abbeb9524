#include "libtorch/operators.h"

#include <torch/library.h>

#include <string>

#include "base/error.h"

namespace crumb {
namespace {

torch::Library make_library() {
  torch::Library library(torch::Library::FRAGMENT, "crumb", std::nullopt, __FILE__, __LINE__);
  try {
    detail::define_fake_quantize(library);
  } catch (const c10::Error& error) {
    throw Error(
        "LibTorch refused Crumb's operators; is crumb_libtorch linked into this process twice? Link it "
        "into "
        "one executable or shared library only. LibTorch says: " +
        std::string(error.what_without_backtrace()));
  }
  return library;
}

}  // namespace

void register_operators() { static const torch::Library library = make_library(); }

}  // namespace crumb
