// Where modules of LibTorch keep the weights that their forward() reads, apart from the parameters that an
// optimizer has: a member and the registered parameter are two handles to one tensor, so the member can be
// given another tensor for a while.
//
//   Linear, Bilinear, Conv1-3d, ConvTranspose1-3d, Embedding    weight
//   LSTM, GRU, RNN (and their cells)                            weight_ih*, weight_hh*, weight_hr*
//   MultiheadAttention                                          in_proj_weight, or q_, k_ and v_proj_weight;
//                                                               its out_proj is a Linear of its own
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace crumb::qat {

struct WeightSlot {
  std::string name;              ///< the parameter's, from the root module: "encoder.fc1.weight"
  std::string layer;             ///< the module that owns it: "encoder.fc1"
  std::string op;                ///< ONNX's name of the operator: "Gemm", "Conv", "ConvTranspose", "Gather"
  std::int64_t output_axis = 0;  ///< the axis of the output channels
  std::int64_t groups = 1;
  at::Tensor latent;                           ///< the registered parameter
  std::function<void(const at::Tensor&)> put;  ///< makes forward() read this tensor; latent puts it back
};

/// Returns all weights in a tree of modules, in the order of registration. A parameter that two modules share
/// comes once for each.
std::vector<WeightSlot> weight_slots(torch::nn::Module& root);

}  // namespace crumb::qat
