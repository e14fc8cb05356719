// SPDX-License-Identifier: Apache-2.0
// Any bytes as what PID 1's socket sends: the pieces in which they come change no message, and a
// message is refused, or its elements have paths and limits within their bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clients/varlink_messages.h"
#include "intake/managed_oom_reply.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

constexpr std::size_t kMessageMax = 2048;

// Nothing: one is too long.
std::vector<std::string> messages_of(std::string_view bytes, std::size_t piece, bool& too_long) {
  clients::VarlinkMessages messages(kMessageMax);
  std::vector<std::string> all;
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    auto added = messages.add(part);
    if (!added) {
      too_long = true;
      return {};
    }
    all.insert(all.end(), added->begin(), added->end());
  }
  return all;
}

void read(const std::string& message) {
  require(message.size() <= kMessageMax && message.find('\0') == std::string::npos);
  const auto reply = intake::read_managed_oom_reply(message);
  if (!reply) return require(!reply.error().text().empty());
  rulesets::ManagedOomRules rules;
  for (const rulesets::ManagedOomElement& each : reply->elements) {
    require(each.path.starts_with('/'));
    require(each.path.size() == 1 || !each.path.ends_with('/'));
    rules.apply(each, {});
  }
  for (const auto& [path, rule] : rules.pressure) {
    require(rule.limit_permyriad >= 0 && rule.limit_permyriad <= 10000);
    require(rule.duration.count() >= 0);
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  bool whole_too_long = false;
  bool pieces_too_long = false;
  const auto whole = forestall::messages_of(bytes, size, whole_too_long);
  const auto pieces = forestall::messages_of(bytes, 3, pieces_too_long);
  forestall::test::require(whole_too_long == pieces_too_long && whole == pieces);
  for (const std::string& each : whole) forestall::read(each);
  return 0;
}
