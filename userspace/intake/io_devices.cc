// SPDX-License-Identifier: Apache-2.0
#include "intake/io_devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse.h"

namespace forestall::intake {
namespace {

// oomd, src/oomd/Main.cpp: read operations and bytes, write operations and bytes, discards and
// bytes.
constexpr std::array<double, 6> kHdd{1.31e-3, 1.13e-7, 2.58e-1, 5.04e-7, 0, 0};
constexpr std::array<double, 6> kSsd{1.21e-2, 6.25e-7, 1.07e-3, 2.61e-7, 2.37e-2, 9.1e-10};

bool is_device(std::string_view name) {
  std::string_view minor = name;
  const std::string_view major = next_field(minor, ':');
  return parse_u64(major) && parse_u64(minor);
}

}  // namespace

Result<std::vector<rulesets::IoDevice>> parse_io_devices(std::string_view text) {
  std::vector<rulesets::IoDevice> devices;
  while (!text.empty()) {
    const std::string_view item = next_field(text, ',');
    std::string_view kind = item;
    const std::string_view device = next_field(kind, '=');
    if (!is_device(device) || (kind != "hdd" && kind != "ssd")) {
      return error(fmt::format("expected MAJOR:MINOR=hdd or MAJOR:MINOR=ssd, found '{}'", item));
    }
    const bool repeated =
        std::any_of(devices.begin(), devices.end(),
                    [device](const rulesets::IoDevice& each) { return each.device == device; });
    if (repeated) return error(fmt::format("device {} is given twice", device));
    devices.push_back({std::string(device), kind == "hdd" ? kHdd : kSsd});
  }
  return devices;
}

}  // namespace forestall::intake
