// Checks which parts of a request do not go together, whatever network it begins with, before anything is
// computed.
#pragma once

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// Throws usage Error that names what does not go with the device, the loss, the kind of network or the
/// stages, and Error where a text that is there has no sequence.
void check_request(const LanguageRequest& request);

}  // namespace crumb::tasks
