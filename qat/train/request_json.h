// A request as JSON: everything that decides a run's result, so that finished and unfinished runs are known again.
#pragma once

#include <nlohmann/json.hpp>

#include "qat/train/trainer.h"

namespace crumb::qat {

/// Without the folder of data: the same data may lie elsewhere.
inline nlohmann::ordered_json request_json(const TrainRequest& request) {
  return {{"task", request.task},
          {"network", request.network},
          {"recipe", to_yaml(request.recipe)},
          {"eight_bit_ends", request.eight_bit_ends},
          {"float_input", request.float_input},
          {"all_layers", request.all_layers},
          {"epochs", request.epochs},
          {"float_epochs", request.float_epochs},
          {"seed", request.seed},
          {"wrap_bits", request.wrap_bits}};
}

}  // namespace crumb::qat
