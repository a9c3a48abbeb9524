// Notes on what a packed file leaves out of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Returns "no output depends on 'pooler.dense.bias', ...": the tensors that the checkpoint's network does
/// not have and the packed file leaves out. Precondition: at least one name.
std::string text_of_unused(const std::vector<std::string>& names);

/// Notes that a packed file leaves these tensors out; says nothing where there are none.
void note_unused(const std::vector<std::string>& names, Notes& notes);

/// Tells the observer which tool quantized a checkpoint, that its values are read as that tool means them,
/// and what its files hold in addition to tensors: at most twenty lines and a count.
void note_reading(const Checkpoint& checkpoint, Observer& observer);

/// Names what a model's folder holds and the packed file will not, and what crumb embed cannot run.
void note_folder(const Checkpoint& checkpoint, Notes& notes);

}  // namespace crumb::jobs
