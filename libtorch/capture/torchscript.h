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
#include <map>
#include <string>
#include <vector>

#include "graph/torchscript_reader.h"
#include "libtorch/capture/capture.h"

namespace crumb::libtorch {

/// The arguments of the archive's forward(), in order. Throws Error where the file is no such archive.
std::vector<graph::TorchScriptArgument> torchscript_arguments(const std::filesystem::path& path);

/// `example`: a tensor for each argument that is_input() and has no constant. `constants`: other arguments,
/// by name, as text. The file holds no shapes: they are those of the example, except for the batch
/// (capture.h). Where the archive runs for the example's batch only, so does its graph. Throws Error where
/// the file is no TorchScript archive, where values of tensors decide what runs, and as capture() does; usage
/// Error where a constant is none of its argument's type.
graph::Graph read_torchscript(const std::filesystem::path& path, const Tensors& example,
                              const std::map<std::string, std::string>& constants = {},
                              const CaptureOptions& options = {});

}  // namespace crumb::libtorch
