// SPDX-License-Identifier: Apache-2.0
// Any text as a KubeletConfiguration: it is rejected with messages that all point into it, or each
// effective threshold has an origin and survives the round trip through JSON.
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
  while (!text.empty()) require(next_field(text, '\n').starts_with("kubelet.yaml:"));
}

void check_accepted(const intake::LoadedConfig& loaded) {
  require(loaded.origins.size() == loaded.config.thresholds.size());
  for (const Threshold& threshold : loaded.config.thresholds) {
    require(threshold.limit.quantity.has_value() != threshold.limit.fraction.has_value());
    require(threshold.grace >= Duration::zero());
  }
  const std::string json =
      messages::to_json(messages::to_proto(loaded.config), messages::JsonStyle::line);
  v1::EffectiveConfig message;
  require(messages::from_json(json, message).ok());
  const Result<Config> back = messages::from_proto(message);
  require(back.ok() && *back == loaded.config);
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace forestall;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto loaded = intake::load_config({"", "kubelet.yaml", {}},
                                          [&](const std::string&) { return Result(text); });
  if (loaded.ok()) {
    check_accepted(*loaded);
  } else {
    check_error(loaded.error().text());
  }
  return 0;
}
