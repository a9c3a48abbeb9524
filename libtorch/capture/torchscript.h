// Reads TorchScript archives (a .pt with code/ inside, from torch.jit.save) as graphs.
//
// The archive's forward() runs under the tracer as a module does in capture(), so scripted and traced
// archives give the same: calls are inlined, conditions and loops over shapes are carried out, parameters
// keep their names. Where the values of tensors decide what runs, the archive is refused: a graph would hold
// only one of several ways.
//
// TorchScript is deprecated upstream: from Python, torch.onnx.export is the documented way.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libtorch/capture/capture.h"

namespace crumb::libtorch {

/// The arguments of the archive's forward() that have no default. Throws Error where the file is no such
/// archive, and where one of them is no tensor.
std::vector<std::string> torchscript_inputs(const std::filesystem::path& path);

/// The file holds no shapes: they are those of the example, except for the batch (capture.h). Where the
/// archive runs for the example's batch only, so does its graph. Throws Error where the file is no
/// TorchScript archive, where values of tensors decide what runs, and as capture() does.
graph::Graph read_torchscript(const std::filesystem::path& path, const Tensors& example,
                              const CaptureOptions& options = {});

}  // namespace crumb::libtorch
