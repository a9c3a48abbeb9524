#include "graph/onnx/library_versions.h"

#include <google/protobuf/stubs/common.h>
#include <onnx/common/version.h>

namespace crumb::graph {

std::string onnx_version() { return onnx::LAST_RELEASE_VERSION; }

std::string protobuf_version() { return google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION); }

}  // namespace crumb::graph
