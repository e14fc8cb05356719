// SPDX-License-Identifier: Apache-2.0
// `managedOOM` of Forestall's configuration.
#pragma once

#include <string>

#include "forestall/v1/config.pb.h"
#include "intake/report.h"

namespace forestall::intake {

struct ManagedOomSection {
  bool on = false;     // source: auto or dbus
  bool dbus = false;   // source: dbus, also as systemd-oomd.service
  std::string config;  // in place of oomd.conf; empty: systemd's own files
  bool killed_signal = false;
};

[[nodiscard]] ManagedOomSection check_managed_oom(const v1::Config& given, Report& report);

}  // namespace forestall::intake
