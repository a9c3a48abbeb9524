// What quantizing a network did, or would do, as text.
#pragma once

#include <string>

#include "jobs/quantize.h"

namespace crumb::cli {

void print(const jobs::QuantizeReport& report);

/// What a stage did, a line for people and one for each note.
std::string text_of(const ptq::StageReport& stage);

}  // namespace crumb::cli
