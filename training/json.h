// Reports of training are JSON objects whose keys keep their order.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json/numbers.h"

namespace crumb::training {

using Json = nlohmann::ordered_json;

}  // namespace crumb::training
