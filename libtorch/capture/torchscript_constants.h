// Arguments of TorchScript functions that are no tensors, from text.
#pragma once

#include <torch/csrc/jit/api/method.h>

#include <map>
#include <string>
#include <vector>

namespace crumb::libtorch {

/// Returns values for the arguments that `constants` names: whole numbers, true or false, decimal numbers,
/// text, "none" for an optional one, and lists of the first three between commas. Throws usage Error for a
/// name that is no argument's or a tensor's, for a type that none of these are, and for text that is none of
/// the type.
torch::jit::Kwargs torchscript_constants(const std::vector<c10::Argument>& arguments,
                                         const std::map<std::string, std::string>& constants);

}  // namespace crumb::libtorch
