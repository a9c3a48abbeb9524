// A request as JSON: everything that decides a run's result, so that finished and unfinished runs can be
// identified.
#pragma once

#include <nlohmann/json.hpp>

#include "tasks/train/trainer.h"

namespace crumb::tasks {

/// Returns what decides what a network from a file learns.
inline nlohmann::ordered_json own_json(const OwnNetwork& own) {
  nlohmann::ordered_json json{{"name", own.name}};
  if (own.outputs.size() == 1) {
    json["loss"] = own.outputs[0].loss;
  } else {
    for (const OwnOutput& output : own.outputs) {
      json["outputs"][output.name] = {{"loss", output.loss}, {"weight", output.weight}};
      if (output.class_axis) json["outputs"][output.name]["class_axis"] = *output.class_axis;
    }
  }
  if (!own.batch_axes.empty()) json["batch_axes"] = own.batch_axes;
  json["fingerprint"] = own.fingerprint;
  return json;
}

/// Returns what decides the float network, and the one that trains longer. Without the folder of data: the
/// same data may be elsewhere.
inline nlohmann::ordered_json float_request_json(const TrainRequest& request) {
  nlohmann::ordered_json own;
  if (request.own) own = own_json(*request.own);
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

/// Returns all that decides the result. A field that is added to the request does not compile until it is
/// named here.
inline nlohmann::ordered_json request_json(const TrainRequest& request) {
  const auto& [task, own, network, data, recipe, eight_bit_ends, float_input, fixed_point_input, all_layers,
               epochs, float_epochs, batch, rate, seed, float_only, float_longer, wrap_bits] = request;
  nlohmann::ordered_json json =
      float_request_json(request);  // task, own, network, fixed_point_input, epochs,
                                    // float_epochs, batch, rate, seed
  json["recipe"] = to_yaml(recipe);
  json["eight_bit_ends"] = eight_bit_ends;
  json["float_input"] = float_input;
  json["all_layers"] = all_layers;
  json["wrap_bits"] = wrap_bits;
  if (float_only) json["float_only"] = true;
  if (!float_longer) json["float_longer"] = false;
  return json;  // no data folder: data may be elsewhere, and states have a checksum of what was read
}

}  // namespace crumb::tasks
