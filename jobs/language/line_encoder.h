// A sentence encoder from whatever file holds one.
#pragma once

#include <string>

#include "runtime/sentences/sentence_encoder.h"

namespace crumb::jobs {

/// Opens a Hugging Face folder or a packed file. Throws Error that names what is missing.
runtime::SentenceEncoder open_line_encoder(const std::string& path, const runtime::PromptChoice& prompt = {});

}  // namespace crumb::jobs
