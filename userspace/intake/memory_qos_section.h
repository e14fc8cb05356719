// SPDX-License-Identifier: Apache-2.0
// The agent's own memory QoS: memoryQoS, memoryThrottlingFactor, memoryReservationPolicy and
// memoryQoSCgroups of Forestall's configuration. memory_qos_config.h reads the kubelet's settings.
#pragma once

#include "forestall/v1/config.pb.h"
#include "intake/report.h"
#include "model/config.h"

namespace forestall::intake {

void check_memory_qos(const v1::Config& given, Config& out, Report& report);

// Of the whole configuration: what prevents that the agent writes values of pods.
void warn_of_memory_qos(const Config& config, Report& report);

}  // namespace forestall::intake
