#include "qat/load_parameters.h"

#include <torch/nn/module.h>
#include <torch/serialize/input-archive.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::qat {
namespace {

constexpr const char* kQuantizers = "quantizers";

class Loader {
 public:
  void load(torch::nn::Module& module, torch::serialize::InputArchive* archive, const std::string& path) {
    for (auto& parameter : module.named_parameters(false)) {
      read(archive, parameter.key(), parameter.value(), path + parameter.key(), true);
    }
    for (auto& buffer : module.named_buffers(false)) {
      read(archive, buffer.key(), buffer.value(), path + buffer.key(), false);
    }
    for (const auto& child : module.named_children()) {
      torch::serialize::InputArchive own;
      const bool there = archive && archive->try_read(child.key(), own);
      if (path.empty() && child.key() == kQuantizers) {
        has_quantizers_ = there;
        if (!there) continue;
      }
      load(*child.value(), there ? &own : nullptr, path + child.key() + ".");
    }
  }

  bool finish() const {
    if (faults_.empty()) return has_quantizers_;
    std::string message = "the checkpoint does not fit the network:";
    for (const std::string& fault : faults_) message += "\n  " + fault;
    throw Error(message);
  }

 private:
  void read(torch::serialize::InputArchive* archive, const std::string& key, at::Tensor& into,
            const std::string& name, bool required) {
    at::Tensor found;
    if (!archive || !archive->try_read(key, found)) {
      if (required) faults_.push_back(quote_text(name) + " is not in it");
      return;
    }
    if (found.sizes() != into.sizes()) {
      faults_.push_back(quote_text(name) + " has another shape: expected " + c10::str(into.sizes()) +
                        ", found " + c10::str(found.sizes()));
      return;
    }
    const torch::NoGradGuard no_gradients;
    into.copy_(found);
  }

  std::vector<std::string> faults_;
  bool has_quantizers_ = false;
};

}  // namespace

bool load_parameters(torch::nn::Module& module, torch::serialize::InputArchive& archive) {
  Loader loader;
  loader.load(module, &archive, "");
  return loader.finish();
}

}  // namespace crumb::qat
