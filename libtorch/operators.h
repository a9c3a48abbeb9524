// Crumb's LibTorch operators, all in the namespace `crumb` of LibTorch's dispatcher.
//
// They are registered by a call, not by static initialisers as TORCH_LIBRARY does: a linker drops an
// initialiser that nothing refers to from a static library, and an error in one ends the process before main.
// Every function of libtorch that calls an operator registers first; call register_operators() yourself
// only where operators are looked up by name before that, as when a traced graph is loaded.
#pragma once

namespace torch {
class Library;
}

namespace crumb {

/// Registers the operators, once however often and from however many threads it is called. Throws Error when
/// the process has operators of these names from elsewhere, such as a second copy of this library.
void register_operators();

namespace detail {
void define_fake_quantize(torch::Library& library);
}

}  // namespace crumb
