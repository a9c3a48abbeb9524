// What quantizing a network did, or would do, as text and as JSON.
#pragma once

#include <string>

#include "cli/output.h"
#include "jobs/quantize.h"

namespace crumb::cli {

Json json_of(const jobs::QuantizeReport& report);
void print(const jobs::QuantizeReport& report);

/// What a stage did, a line for people and one for each note.
std::string text_of(const ptq::StageReport& stage);

}  // namespace crumb::cli
