// Prints what quantizing a network did, or would do.
#pragma once

#include <string>

#include "jobs/quantize.h"

namespace crumb::cli {

void print(const jobs::QuantizeReport& report);

/// Returns what a stage did: one line for people and one for each note.
std::string text_of(const ptq::StageReport& stage);

}  // namespace crumb::cli
