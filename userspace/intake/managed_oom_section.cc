// SPDX-License-Identifier: Apache-2.0
#include "intake/managed_oom_section.h"

namespace forestall::intake {
namespace {

constexpr const char* kSource = "managedOOM.source";
constexpr const char* kConfig = "managedOOM.config";

void check_source(const v1::ManagedOom& given, ManagedOomSection& section, Report& report) {
  if (!given.has_source()) {
    return report.missing("managedOOM", "source", "set it to auto, dbus or off");
  }
  const std::string& source = given.source();
  section.dbus = source == "dbus";
  section.on = section.dbus || source == "auto";
  if (!section.on && source != "off") {
    report.error(kSource, "'source' must be auto, dbus or off, found '" + source + "'");
  }
}

// Rulesets have their names from systemd's properties.
void check_names(const v1::Config& given, Report& report) {
  for (int i = 0; i < given.rulesets_size(); ++i) {
    const std::string& name = given.rulesets(i).name();
    if (!name.starts_with("ManagedOOM")) continue;
    report.error(
        "rulesets[" + std::to_string(i) + "].name",
        "'name' must not begin with ManagedOOM while 'managedOOM' is on, found '" + name + "'");
  }
}

}  // namespace

ManagedOomSection check_managed_oom(const v1::Config& given, Report& report) {
  ManagedOomSection section;
  if (!given.has_managed_oom()) return section;
  check_source(given.managed_oom(), section, report);
  section.config = given.managed_oom().config();
  if (given.managed_oom().has_config() && !section.config.starts_with('/')) {
    report.error(kConfig, "'config' must be an absolute path, found '" + section.config + "'");
  }
  if (section.on) {
    check_names(given, report);
    section.killed_signal = given.managed_oom().killed_signal();
    return section;
  }
  if (given.managed_oom().has_config()) {
    report.warn_at_key(kConfig, "has no effect: 'source' is off");
  }
  if (given.managed_oom().killed_signal()) {
    report.warn_at_key("managedOOM.killedSignal", "has no effect: 'source' is off");
  }
  return section;
}

}  // namespace forestall::intake
