// What of a request does not go together, whatever network it begins with: said before anything is computed for it.
#pragma once

#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// Throws usage Error that names what does not go with the device, the loss, the kind of network or the stages, and Error where
/// a text that is there has no sequence.
void check_request(const LanguageRequest& request);

}  // namespace crumb::tasks
