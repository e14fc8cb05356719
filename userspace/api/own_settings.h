// SPDX-License-Identifier: Apache-2.0
// Checks of settings that kubelet does not have: the ranking, and the addresses of metrics and of
// the gRPC API.
#pragma once

#include <optional>
#include <string_view>

#include "api/report.h"
#include "forestall/v1/config.pb.h"
#include "model/config.h"

namespace forestall::api {

// "kubelet", "kernel" or "kubelet+growth".
[[nodiscard]] std::string_view ranking_word(Ranking ranking);
[[nodiscard]] std::optional<Ranking> parse_ranking(std::string_view word);

// Whether `address` is an IP address and a port, "127.0.0.1:9464" or "[::1]:9464". Host names are
// refused: the agent would depend on a name server.
[[nodiscard]] bool is_address(std::string_view address);

// Settings that are not given keep their values.
void check_ranking(const v1::Config& given, Config& out, Report& report);
void check_metrics_address(const v1::Config& given, Config& out, Report& report);
void check_api(const v1::Config& given, Config& out, Report& report);
void check_guard(const v1::Config& given, Config& out, Report& report);

}  // namespace forestall::api
