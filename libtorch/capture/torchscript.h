// TorchScript archives (a .pt with code/ inside, from torch.jit.save) as graphs.
//
// The archive's forward() runs under the tracer as a module's does in capture(), so that what was scripted
// and what was traced come out alike: calls are inlined, conditions and loops over shapes are carried out,
// parameters keep their names. What depends on the values of tensors is refused: a graph would hold one way
// of several.
//
// TorchScript is deprecated upstream: from Python, torch.onnx.export is the documented way.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libtorch/capture/capture.h"

namespace crumb::libtorch {

/// The arguments of the archive's forward() that have no default. Throws Error where the file is no such
/// archive and where one of them is no tensor.
std::vector<std::string> torchscript_inputs(const std::filesystem::path& path);

/// The file holds no shapes: they are those of the example, but for the batch (capture.h). Where the archive
/// runs for the example's batch only, its graph does too. Throws Error where the file is no TorchScript
/// archive, where values of tensors decide what runs, and as capture() does.
graph::Graph read_torchscript(const std::filesystem::path& path, const Tensors& example,
                              const CaptureOptions& options = {});

}  // namespace crumb::libtorch
