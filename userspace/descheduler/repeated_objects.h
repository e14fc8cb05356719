// SPDX-License-Identifier: Apache-2.0
// An object that several files contain.
#pragma once

#include "rebalance/snapshot.h"

namespace forestall::descheduler {

// Keeps the last one of all objects of a kind that have the same namespace and name, as a cluster
// has only one. Samples and reports are no objects in this sense: there are several of a node.
void drop_repeated(rebalance::Snapshot& snapshot);

}  // namespace forestall::descheduler
