#include "text/chat/renderer.h"

#include <algorithm>
#include <utility>

#include "base/files/text.h"

namespace crumb::text::chat {
namespace {}  // namespace

Renderer::Renderer(const Syntax& syntax, Pairs context, std::uint64_t steps, std::time_t now)
    : syntax_(syntax), context_(std::move(context)), meter_(steps), now_(now) {
  add_functions();
}

std::string Renderer::render() {
  std::string out;
  out_ = &out;
  Scope root = enter(syntax_.body->scope, nullptr);
  root_ = &root;
  run(*syntax_.body, root);
  return out;
}

// --- Scopes ---

std::optional<Value>* Renderer::Scope::find(Symbol name) {
  const auto found = names->find(name);
  if (found == names->end()) return nullptr;
  return &values[static_cast<std::size_t>(std::distance(names->begin(), found))];
}

Renderer::Scope Renderer::enter(const ScopeNames& names, Scope* outer) {
  Scope made{&names, outer, {}};
  made.values.reserve(names.size());
  for (const auto& [name, how] : names) {
    meter_.spend(1);
    std::optional<Value> value;
    if (how == Load::kContext) value = in_context(name);
    if (how == Load::kOuter) {
      for (Scope* scope = outer; scope != nullptr; scope = scope->outer) {
        if (const auto* found = scope->find(name)) {
          value = *found;
          break;
        }
      }
    }
    made.values.push_back(std::move(value));
  }
  return made;
}

std::optional<Value> Renderer::in_context(Symbol name) {
  const Value* const found =
      find(context_, std::string_view(syntax_.names[static_cast<std::size_t>(name)]), meter_);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Value Renderer::variable(Symbol name, Scope& scope) {
  for (Scope* at = &scope; at != nullptr; at = at->outer) {
    const std::optional<Value>* const found = at->find(name);
    if (found == nullptr) continue;
    if (*found) return **found;
    break;
  }
  return Value::undefined(quote_text(syntax_.names[static_cast<std::size_t>(name)]) + " is undefined");
}

// --- Statements ---

void Renderer::write(const std::string& text) {
  meter_.spend_text(text.size());
  *out_ += text;
}

std::pair<std::string, Renderer::Flow> Renderer::captured(const Node& body, Scope& scope) {
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  const Flow flow = run(body, scope);
  out_ = before;
  return {std::move(text), flow};
}

void Renderer::go_deeper() {
  if (++depth_ > kMostCalls) throw Trouble("calls are nested too deep");
}

Renderer::Flow Renderer::run(const Node& node, Scope& scope) {
  meter_.spend(1);
  line_ = node.line;
  go_deeper();
  const Flow flow = run_statement(node, scope);
  --depth_;
  return flow;
}

Renderer::Flow Renderer::run_statement(const Node& node, Scope& scope) {
  switch (node.kind) {
    case NodeKind::kBody:
      for (const auto& part : node.parts)
        if (const Flow flow = run(*part, scope); flow != Flow::kOn) return flow;
      break;
    case NodeKind::kData: write(node.value.as_text()); break;
    case NodeKind::kOutput: write(str(evaluate(*node.parts[0], scope), meter_)); break;
    case NodeKind::kIf: return run_if(node, scope);
    case NodeKind::kFor: return run_loop(node, scope);
    case NodeKind::kSet: assign(*node.parts[0], evaluate(*node.parts[1], scope), scope); break;
    case NodeKind::kSetBlock: return run_set_block(node, scope);
    case NodeKind::kMacro: *scope.find(node.symbol) = Value::macro(&node); break;
    case NodeKind::kFilterBlock: {
      Scope inside = enter(node.scope, &scope);
      auto [text, flow] = captured(*node.parts[1], inside);
      if (flow != Flow::kOn) return flow;
      write(str(filter_text(*node.parts[0], std::move(text), inside), meter_));
      break;
    }
    case NodeKind::kGeneration: {
      Scope inside = enter(node.parts[0]->scope, &scope);
      return run(*node.parts[0], inside);
    }
    case NodeKind::kBreak: return Flow::kBreak;
    case NodeKind::kContinue: return Flow::kContinue;
    default: break;  // other kinds occur inside of these only
  }
  return Flow::kOn;
}

Renderer::Flow Renderer::run_if(const Node& node, Scope& scope) {
  std::size_t at = 0;
  for (; at + 1 < node.parts.size(); at += 2)
    if (truth(evaluate(*node.parts[at], scope))) return run(*node.parts[at + 1], scope);
  return at < node.parts.size() ? run(*node.parts[at], scope) : Flow::kOn;
}

List Renderer::loop_items(const Node& node, Scope& scope) {
  List all = elements(evaluate(*node.parts[1], scope), meter_);
  if (!node.parts[2]) return all;
  List kept;
  for (Value& item : all) {
    Scope inside = enter(node.scope, &scope);
    assign(*node.parts[0], item, inside);
    if (truth(evaluate(*node.parts[2], inside))) kept.push_back(std::move(item));
  }
  return kept;
}

Renderer::Flow Renderer::run_loop(const Node& node, Scope& scope) {
  Loop loop;
  loop.items = loop_items(node, scope);
  const Node& body = *node.parts[3];
  bool any_ended = false;  // an iteration that ended early does not count as one
  for (; loop.index < loop.items.size(); ++loop.index) {
    Scope inside = enter(body.scope, &scope);
    *inside.find(kLoopSymbol) = Value::loop(&loop);
    assign(*node.parts[0], loop.items[loop.index], inside);
    const Flow flow = run(body, inside);
    any_ended |= flow == Flow::kOn;
    if (flow == Flow::kBreak) break;
  }
  if (any_ended || !node.parts[4]) return Flow::kOn;
  Scope inside = enter(node.parts[4]->scope, &scope);
  return run(*node.parts[4], inside);
}

Renderer::Flow Renderer::run_set_block(const Node& node, Scope& scope) {
  Scope inside = enter(node.scope, &scope);
  auto [text, flow] = captured(*node.parts[2], inside);
  if (flow != Flow::kOn) return flow;
  const Value value =
      node.parts[1] ? filter_text(*node.parts[1], std::move(text), inside) : Value::text(std::move(text));
  assign(*node.parts[0], value, scope);
  return Flow::kOn;
}

void Renderer::assign(const Node& target, const Value& value, Scope& scope) {
  if (target.kind == NodeKind::kName) {
    *scope.find(target.symbol) = value;
  } else if (target.kind == NodeKind::kSetAttribute) {
    const Value owner = variable(target.symbol, scope);
    if (!owner.is(Kind::kNamespace)) throw Trouble("only attributes of namespaces can be set");
    if (target.name.starts_with('_')) throw Trouble("a namespace cannot hold " + quote_text(target.name));
    put(owner.attributes(), Value::text(target.name), value, meter_);
  } else {
    const List items = elements(value, meter_);
    if (items.size() != target.parts.size())
      throw Trouble(std::to_string(items.size()) + " values for " + std::to_string(target.parts.size()) +
                    " variables");
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i], scope);
  }
}

}  // namespace crumb::text::chat
