// A request as JSON: everything that decides a run's result, so that finished and unfinished runs are known again.
#pragma once

#include <nlohmann/json.hpp>

#include "tasks/train/trainer.h"

namespace crumb::tasks {

/// What decides the float network, and the one trained on. Without the folder of data: the same data may lie elsewhere.
inline nlohmann::ordered_json float_request_json(const TrainRequest& request) {
  nlohmann::ordered_json own;
  if (request.own) {
    own = {
        {"name", request.own->name}, {"loss", request.own->loss}, {"fingerprint", request.own->fingerprint}};
  }
  return {{"fixed_point_input", request.fixed_point_input},
          {"task", request.task},
          {"network", request.network},
          {"float_epochs", request.float_epochs},
          {"batch", request.batch},
          {"seed", request.seed},
          {"own", own},
          {"epochs", request.epochs},
          {"rate", request.rate}};
}

/// All of it.
inline nlohmann::ordered_json request_json(const TrainRequest& request) {
  nlohmann::ordered_json json = float_request_json(request);
  json["recipe"] = to_yaml(request.recipe);
  json["eight_bit_ends"] = request.eight_bit_ends;
  json["float_input"] = request.float_input;
  json["all_layers"] = request.all_layers;
  json["wrap_bits"] = request.wrap_bits;
  if (request.float_only) json["float_only"] = true;
  return json;
}

}  // namespace crumb::tasks
