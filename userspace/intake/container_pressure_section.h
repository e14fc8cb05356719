// SPDX-License-Identifier: Apache-2.0
// The response to memory pressure of single containers: the section containerPressure, and
// KEP-5986's thresholds of a KubeletConfiguration.
#pragma once

#include "forestall/v1/config.pb.h"
#include "intake/kubelet_settings.h"
#include "intake/report.h"
#include "model/container_pressure.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// `settings` has the thresholds of both files.
[[nodiscard]] ContainerPressureConfig check_container_pressure(const v1::Config& given,
                                                               const KubeletSettings& settings,
                                                               Report& report,
                                                               text::Findings& findings);

}  // namespace forestall::intake
