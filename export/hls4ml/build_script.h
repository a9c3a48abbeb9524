// build.py of a project for hls4ml.
#pragma once

#include <string_view>

namespace crumb::exporting::hls4ml {

/// The same for every project: hls4ml_config.json has what differs.
std::string_view build_script();

}  // namespace crumb::exporting::hls4ml
