// The one place that keeps a run's outputs apart from its inputs. Whatever opens a file or a folder to read it says so here, and
// whatever creates, replaces or removes one asks here first. Both by device and inode (and time of birth, where the file system
// knows one), so that links and other spellings do not matter. Whichever comes second throws: an input that an announced output
// would replace is refused when it is opened, before any work.
//
// Inputs are remembered while an InputWatch lives: the crumb command holds one as long as it runs. A program that uses the
// library may hold one for each of its own runs; without one nothing is remembered and nothing refused.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crumb {

/// While one lives, in the whole process, inputs and announced outputs are remembered. The last one that goes forgets them.
class InputWatch {
 public:
  InputWatch();
  InputWatch(const InputWatch&) = delete;
  InputWatch& operator=(const InputWatch&) = delete;
  ~InputWatch();
};

/// While one lives on this thread, what is opened is no input: what an earlier run left to be continued or replaced.
class OwnFiles {
 public:
  OwnFiles();
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;
  ~OwnFiles();
};

/// Of a file that was opened to be read, under the name by which it was found. What this run wrote is no input. Throws usage Error
/// where an announced output is this file, or is a folder that holds it.
void note_input(int fd, const std::filesystem::path& name);

/// Of a folder that is read as one (a model's, an adapter's). Throws usage Error where an announced output is it, holds it, or lies
/// in it. Does nothing where there is none.
void note_input_folder(const std::filesystem::path& folder);

/// Of what this run created, file or folder.
void note_made(int fd);

/// Throws usage Error where the file that is to be created, replaced or removed is an input, or lies in an input folder. `output`
/// is what a person named, where that is another ("is first written with").
void refuse_input(const std::filesystem::path& path, const std::filesystem::path& output = {});

/// The same of a folder that is to be replaced or removed with what is in it; also where it holds an input.
void refuse_input_folder(const std::filesystem::path& folder, const std::filesystem::path& output = {});

/// What refuse_input and, where `output` is a folder, refuse_input_folder do, against these inputs alone, whether or not an InputWatch
/// lives; of the output and of what is written `beside` it.
void refuse_these_inputs(const std::vector<std::filesystem::path>& inputs,
                         const std::filesystem::path& output,
                         const std::vector<std::filesystem::path>& beside);

/// What refuse_input does of a file and of those that are written beside it, and again for each input that is opened later.
void announce_output(const std::filesystem::path& file,
                     const std::vector<std::filesystem::path>& beside = {});

/// The same of a folder that is written as a whole.
void announce_output_folder(const std::filesystem::path& folder,
                            const std::vector<std::filesystem::path>& beside = {});

}  // namespace crumb
