// SPDX-License-Identifier: Apache-2.0
// Checks of settings that kubelet does not have: the ranking, and the addresses of metrics and of
// the gRPC API.
#pragma once

#include <optional>
#include <string_view>

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/config.h"

namespace forestall::intake {

// Whether `address` is an IP address and a port, "127.0.0.1:9464" or "[::1]:9464". Host names are
// refused: the agent would depend on a name server.
[[nodiscard]] bool is_address(std::string_view address);

// Settings that are not given keep their values.
void check_ranking(const v1::Config& given, Config& out, Report& report);
void check_metrics_address(const v1::Config& given, Config& out, Report& report);
void check_api(const v1::Config& given, Config& out, Report& report);
void check_guard(const v1::Config& given, Config& out, Report& report);
// REQUIRES: check_guard() before.
void check_guard_expiry(const v1::Config& given, Config& out, Report& report);
void check_kill_limit(const v1::Config& given, Config& out, Report& report);
void check_watched_cgroups_max(const v1::Config& given, Config& out, Report& report);
void check_pod_list_max_age(const v1::Config& given, Config& out, Report& report);

}  // namespace forestall::intake
