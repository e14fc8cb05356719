// SPDX-License-Identifier: Apache-2.0
// Checks the configuration of the agent's own recording.
#pragma once

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/config.h"

namespace forestall::intake {

void check_recording(const v1::Config& given, Config& out, Report& report);

}  // namespace forestall::intake
