//! A rank that is a sub-master: hands chunks on to its members, and their results to the master.

use super::bundle::{self, Wrapped};
use super::hand::Hand;
use super::machine::{Attach, Deputy, Join, Lead, Lost, Status};
use super::parcel;
use super::trail::Tracks;
use super::watch::Loss;
use crate::comm::Frame;
use crate::comm::message::{Message, Tag, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::{self, Item};

/// What a sub-master keeps: chunks and results as they travel.
pub(super) type Office = Deputy<Wrapped, Wrapped>;

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Hand<'_, 'scope, '_, 'w, 'f, I, O> {
    /// The master makes this rank a sub-master.
    pub(super) fn lead(&mut self, message: &Message) -> Result<()> {
        let Lead { members, order } = wire::from_bytes(&message.body)?;
        let (me, size) = (self.endpoint.rank(), self.endpoint.size());
        if let Some((strange, _)) = members.iter().find(|&&(m, _)| m == 0 || m == me || m >= size) {
            let text = format!("was to be the sub-master of rank {strange}, which cannot be");
            return Err(self.here(Error::new(ErrorKind::Wire, text)));
        }
        for &(member, has_come) in &members {
            self.watch.expect(self.endpoint, member, has_come);
            self.endpoint.send(member, Tag::Attach, &order)?;
        }
        self.endpoint.sends_aside();
        self.deputy = Some(Deputy::new(size, members.into_iter().map(|(member, _)| member).collect()));
        // It does no tasks any more, and can always give signs of life.
        self.tell_how()
    }

    /// A rank is this one's master from now on.
    pub(super) fn attach(&mut self, message: &Message) -> Result<()> {
        let (to, Attach { number, instead_of }) = (message.from, wire::from_bytes(&message.body)?);
        if number <= self.order {
            return Ok(());
        }
        self.order = number;
        if let Some(dead) = instead_of {
            self.endpoint.learn_of(dead);
        }
        // What another sub-master has given is given to others: it is dead.
        self.inbox.retain(|&(from, ..)| from == 0 || from == to);
        self.upper = to;
        self.endpoint.sends_aside();
        self.told = None;
        // Who takes charge of others is there.
        self.watch.expect(self.endpoint, to, true);
        self.tell_how()?;
        if let Some(took) = self.made {
            self.join(to, took)?;
        }
        Ok(())
    }

    /// Chunks from the master, for members.
    pub(super) fn bulk(&mut self, message: Message) -> Result<()> {
        self.watch.active(message.from);
        // A rank that was a sub-master has given back what it had.
        let Some(office) = &mut self.deputy else { return Ok(()) };
        let (ahead, chunks) = bundle::unwrap(message.body, message.parts)?;
        office.set_ahead(ahead);
        for chunk in chunks {
            let (giving, _) = parcel::given(chunk.body.clone(), Vec::new())?;
            office.take(giving, chunk);
        }
        Ok(())
    }

    /// What a member says. Returns the message if it is not for a sub-master.
    pub(super) fn member_says(&mut self, message: Message) -> Result<Option<Message>> {
        let from = message.from;
        if let Some(office) = &mut self.deputy {
            office.heard(from);
        }
        let Some(office) = self.deputy.as_mut().filter(|office| office.members().contains(&from)) else {
            return Ok(Some(message));
        };
        match message.tag::<Tag>()? {
            Tag::Join => {
                let join: Join = wire::from_bytes(&message.body)?;
                office.joined(from);
                if let Some(trail) = &join.trail {
                    self.endpoint.know(from, trail.process.clone());
                    self.tracks.extend(Tracks::open(trail).map(|tracks| (from, tracks)));
                }
                self.watch.active(from);
            }
            Tag::Done => {
                let id = parcel::done_id(&message.body)?;
                office.done(from, id, Wrapped { by: from, body: message.body, parts: message.parts });
                self.watch.active(from);
            }
            _ => return Ok(Some(message)),
        }
        Ok(None)
    }

    /// Hands chunks to members that ask, and results to the master. Returns whether there was anything.
    pub(super) fn pass_on(&mut self) -> Result<bool> {
        let Some(office) = &mut self.deputy else { return Ok(false) };
        let (mut moved, run) = (false, self.endpoint.run());
        while let Some((member, giving, chunk)) = office.give() {
            let mut head = frame_header(run, Tag::Chunk).to_vec();
            head.extend_from_slice(&chunk.body);
            if giving.careful {
                parcel::make_careful(&mut head);
            }
            self.endpoint.send_ready(member, Frame { head: head.into(), parts: chunk.parts })?;
            moved = true;
            // Members with something to do get one at a time: others may have asked meanwhile that have nothing.
            if !office.somebody_is_idle() {
                break;
            }
        }
        if office.is_due() {
            self.endpoint.send_ready(0, bundle::wrap(run, Tag::Bundle, 0, office.deliver()))?;
            moved = true;
        }
        if office.is_deserted() {
            return self.retire().map(|()| true);
        }
        Ok(moved)
    }

    /// Nobody is left to lead: what is here goes back to the master, and this rank does tasks itself.
    fn retire(&mut self) -> Result<()> {
        let Some(mut office) = self.deputy.take() else { return Ok(()) };
        let results = office.deliver();
        if !results.is_empty() {
            let message = bundle::wrap(self.endpoint.run(), Tag::Bundle, 0, results);
            self.endpoint.send_ready(0, message)?;
        }
        self.endpoint.send(0, Tag::Retire, &())?;
        self.told = None;
        self.tell_how()?;
        match self.made {
            Some(warm_up) => self.join(0, warm_up),
            None => Ok(()),
        }
    }

    /// A round over the members: those that are silent are lost.
    pub(super) fn over_members(&mut self, mine: &Status) -> Result<()> {
        let Some(office) = &mut self.deputy else { return Ok(()) };
        let now = self.clock.now();
        for loss in self.watch.over_workers(self.endpoint, office.crew(), mine, now)? {
            log::warn!("farm {}: the tasks of rank {} go to others: {}", self.name, loss.rank, loss.why);
            let Loss { rank, certain, why, .. } = loss;
            if !certain {
                office.doubt(rank);
                continue;
            }
            let in_hand = self.watch.in_hand(self.tracks.get(&rank), rank, loss.died);
            let chunks = office.lose(rank).into_iter().map(|giving| giving.id).collect();
            self.endpoint.lose(rank, &why);
            self.endpoint.send(0, Tag::Lost, &Lost { rank, why, chunks, in_hand })?;
        }
        Ok(())
    }
}
