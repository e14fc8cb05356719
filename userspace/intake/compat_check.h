// SPDX-License-Identifier: Apache-2.0
// Checks of the configuration's sections `compat`, `filesystems` and `oomScoreAdj`, which are
// independent of each other.
#pragma once

#include "forestall/v1/config.pb.h"
#include "intake/eviction_settings.h"
#include "intake/report.h"
#include "model/config.h"

namespace forestall::intake {

// Returns the minor version of the kubelet to match.
KubeletMinor check_compat(const v1::Compat& given, Compat& out, Report& report);

void check_filesystems(const v1::Filesystems& given, FilesystemPlaces& out, Report& report);

void check_oom_score_adj(const v1::Config& given, Config& out, Report& report);

}  // namespace forestall::intake
