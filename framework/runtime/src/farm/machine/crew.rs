//! The ranks of a farm: who works, who has how much, who asks for more.

use std::collections::BTreeSet;

/// What a rank is to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not come to the farm yet.
    Away,
    /// It takes tasks.
    Working,
    /// It hangs in a task beyond the limit that the user set.
    Hung,
    /// It computes on the thread that communicates and has been silent for long: it is dead, or a task takes longer than
    /// the ones before it. It is given nothing until it is heard again.
    Silent,
    /// It gives no sign of life.
    Dead,
    /// It has reported and left.
    Left,
}

/// The ranks by number. A worker *asks* as long as it holds no more than it may ask for ahead: every result that it
/// sends is also a request.
#[derive(Debug)]
pub(crate) struct Crew {
    standing: Vec<Standing>,
    held: Vec<u32>,
    /// Working ranks with the number of chunks that they hold, fewest first.
    asking: BTreeSet<(u32, usize)>,
}

impl Crew {
    pub(super) fn new(size: usize) -> Self {
        Crew { standing: vec![Standing::Away; size], held: vec![0; size], asking: BTreeSet::new() }
    }

    pub(crate) fn standing(&self, rank: usize) -> Standing {
        self.standing[rank]
    }

    /// Ranks that work.
    pub(crate) fn working(&self) -> usize {
        self.asking.len()
    }

    /// Whether no other rank than this one works.
    pub(super) fn is_alone(&self, rank: usize) -> bool {
        self.working() == usize::from(self.standing[rank] == Standing::Working)
    }

    /// Chunks that a rank has.
    pub(crate) fn held(&self, rank: usize) -> u32 {
        self.held[rank]
    }

    /// A rank is from now on what `standing` says. One that is lost holds nothing.
    pub(crate) fn set(&mut self, rank: usize, standing: Standing) {
        self.asking.remove(&(self.held[rank], rank));
        self.standing[rank] = standing;
        if standing == Standing::Working {
            self.asking.insert((self.held[rank], rank));
        } else {
            self.held[rank] = 0;
        }
    }

    pub(super) fn gave(&mut self, rank: usize) {
        self.count(rank, self.held[rank] + 1);
    }

    pub(super) fn got(&mut self, rank: usize) {
        self.count(rank, self.held[rank].saturating_sub(1));
    }

    fn count(&mut self, rank: usize, held: u32) {
        if self.standing[rank] == Standing::Working {
            self.asking.remove(&(self.held[rank], rank));
            self.asking.insert((held, rank));
        }
        self.held[rank] = held;
    }

    /// The working ranks other than 0 that hold at most `ahead` chunks, those with the fewest first: the order in
    /// which to give chunks to them.
    pub(crate) fn askers(&self, ahead: u32) -> impl Iterator<Item = usize> {
        let fewest = self.asking.iter().filter(|&&(_, rank)| rank != 0);
        fewest.take_while(move |&&(held, _)| held <= ahead).map(|&(_, rank)| rank)
    }

    /// The first of them.
    pub(crate) fn neediest(&self, ahead: u32) -> Option<usize> {
        self.askers(ahead).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_the_fewest_is_served_first() {
        let mut crew = Crew::new(4);
        assert_eq!(crew.neediest(9), None, "nobody has joined");
        (0..4).for_each(|r| crew.set(r, Standing::Working));
        let mut served = Vec::new();
        while let Some(rank) = crew.neediest(1) {
            crew.gave(rank);
            served.push(rank);
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 3]);
        crew.got(2);
        assert_eq!(crew.neediest(1), Some(2));
        crew.set(2, Standing::Dead);
        assert_eq!((crew.neediest(1), crew.held(2), crew.working()), (None, 0, 3));
        crew.got(3);
        assert_eq!((crew.neediest(1), crew.held(3)), (Some(3), 1));
    }
}
