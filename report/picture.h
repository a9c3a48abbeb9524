// Pictures inside a page.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "report/report.h"

namespace crumb::report {

/// The picture as the bytes of a PNG file. The same picture gives the same bytes with the same zlib.
std::string png_of(const Picture& picture);

/// RFC 4648.
std::string base64(std::string_view bytes);

}  // namespace crumb::report
