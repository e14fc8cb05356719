// SPDX-License-Identifier: Apache-2.0
// Any text as a configuration, with any text as its manifest (the two parts of the input, split at
// the first byte 1, which is invalid in a configuration). It is rejected with messages that all
// point into a file, or the effective settings survive the round trip through JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/parse.h"
#include "intake/config_file.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void check_error(std::string_view text) {
  require(!text.empty());
  while (!text.empty()) {
    const std::string_view line = next_field(text, '\n');
    require(line.starts_with("config.yaml:") || line.starts_with("manifest.yaml:"));
  }
}

void check_config(const Config& config) {
  const std::string json = messages::to_json(messages::to_proto(config), messages::JsonStyle::line);
  v1::EffectiveConfig message;
  require(messages::from_json(json, message).ok());
  const Result<Config> back = messages::from_proto(message);
  require(back.ok() && *back == config);
}

void run(std::string_view input) {
  const std::string_view config = next_field(input, '\x01');
  const auto parsed = intake::load_config({"config.yaml", "", {}},
                                          [&](const std::string& path) -> Result<std::string> {
                                            if (path == "config.yaml") return std::string(config);
                                            if (path == "manifest.yaml") return std::string(input);
                                            return error("no such file");
                                          });
  if (parsed.ok()) {
    check_config(parsed->config);
  } else {
    check_error(parsed.error().text());
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
