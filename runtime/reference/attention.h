// Attention by its definition (runtime/attention/attention.h): scalar, plain, kept for ever. attend() is tested against it,
// bit for bit.
#pragma once

#include "runtime/attention/attention.h"

namespace crumb::runtime::reference {

void attend(const Attention& attention);

}  // namespace crumb::runtime::reference
