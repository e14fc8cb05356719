// SPDX-License-Identifier: Apache-2.0
// Any text as the values of kubelet's flags: one per line, whose first byte is the flag's number.
// Either they are rejected with messages that name a flag, or writing and reading the result again
// gives the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/parse.h"
#include "intake/config_file.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

intake::GivenFlags flags_of(std::string_view input) {
  intake::GivenFlags given;
  const auto flags = intake::kubelet_flags();
  while (!input.empty()) {
    std::string_view line = next_field(input, '\n');
    if (line.empty()) continue;
    const auto number = static_cast<unsigned char>(line.front()) % flags.size();
    given[flags[number].name].emplace_back(line.substr(1));
  }
  return given;
}

// A map is written as one flag with every pair once.
std::string written(const intake::WrittenPairs& pairs, char separator) {
  std::string text;
  for (const intake::WrittenPair& pair : pairs) {
    text += (text.empty() ? "" : ",") + pair.key + separator + pair.value;
  }
  return text;
}

void check_pairs(const char* flag, const std::optional<intake::Written<intake::WrittenPairs>>& map,
                 char separator) {
  if (!map) return;
  std::vector<text::Finding> errors;
  const intake::KubeletSettings again =
      intake::read_kubelet_flags({{flag, {written(map->value, separator)}}}, errors);
  require(errors.empty());
  const auto& back = separator == '<' ? again.eviction_hard : again.kube_reserved;
  require(back.has_value() && back->value.size() == map->value.size());
  for (std::size_t i = 0; i < back->value.size(); ++i) {
    require(back->value[i].key == map->value[i].key);
    require(back->value[i].value == map->value[i].value);
  }
}

void check_error(std::string_view text) {
  require(!text.empty());
  while (!text.empty()) require(next_field(text, '\n').starts_with("--"));
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace forestall;
  const intake::GivenFlags given = flags_of({reinterpret_cast<const char*>(data), size});
  std::vector<text::Finding> errors;
  const intake::KubeletSettings settings = intake::read_kubelet_flags(given, errors);
  if (errors.empty()) {
    check_pairs("eviction-hard", settings.eviction_hard, '<');
    check_pairs("kube-reserved", settings.kube_reserved, '=');
  }
  const auto loaded = intake::load_config({"", "", given});
  require(errors.empty() || !loaded.ok());
  if (loaded.ok()) {
    require(loaded->origins.size() == loaded->config.thresholds.size());
  } else {
    check_error(loaded.error().text());
  }
  return 0;
}
