// Whether the graph in a packed file is the decoder that its configuration means.
#pragma once

#include "formats/crumb_file/crumb_file.h"

namespace crumb::models {

/// Throws Error where a packed decoder's graph turns queries and keys by other frequencies than its config.json says: what is
/// made of its tensors and configuration, for other tools, would be another network. Files of models that crumb train lm
/// trained while frequencies were no buffers of the graph (graph/buffers.h) are of that kind.
void expect_rotations_of_configuration(const CrumbFile& file);

}  // namespace crumb::models
