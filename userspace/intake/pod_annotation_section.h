// SPDX-License-Identifier: Apache-2.0
// `podAnnotations` of Forestall's configuration.
#pragma once

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/pod_annotations.h"

namespace forestall::intake {

[[nodiscard]] PodAnnotationPolicy check_pod_annotations(const v1::Config& given, Report& report);

}  // namespace forestall::intake
